//go:build !race

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/netns"
	"github.com/kernbench/kernbench/internal/host/proctest"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// checkImage runs the container image in $DIST: with a bench on one host, and as the pods of the JobSet.
func checkImage(t *testing.T, shell func(script string) string) {
	t.Helper()
	text := shell("../../scripts/image-run.sh $DIST/*.oci.tar version")
	if !strings.Contains(text, "kernbench v9.8.7") || !strings.Contains(text, "static: without C libraries") {
		t.Errorf("the program in the image calls itself\n%s", text)
	}
	text = shell("../../scripts/image-run.sh $DIST/*.oci.tar run -q --bench memory --op copy --size 16K --ranks 2 " +
		"--max-time 10ms --format csv")
	if !strings.Contains(text, "copy") {
		t.Errorf("the program in the image measures nothing:\n%s", text)
	}
	// Without crun, the check of the packages must say that it did not run the image.
	text = shell("mkdir $DIR/tools && find /usr/bin /bin /usr/sbin -maxdepth 1 ! -type d ! -name crun " +
		"-exec ln -sf -t $DIR/tools {} + && PATH=$DIR/tools ../../scripts/dist-check.sh $DIST")
	if !strings.Contains(text, "linux-"+runtime.GOARCH+".oci.tar: install crun\n") {
		t.Errorf("dist-check.sh without crun: %s", text)
	}
	image := strings.TrimSpace(shell("ls $DIST/*.oci.tar"))
	t.Run("JobSet", func(t *testing.T) { checkPods(t, image) })
	t.Run("killed", func(t *testing.T) { checkKilledPod(t, image) })
}

// podRun is a running container of a pod.
type podRun struct {
	host           *netns.Host
	stdout, stderr *proctest.Buffer
	out            string // the folder that is mounted at /work/out
	cmd            *exec.Cmd
	ended          chan struct{}
}

// startPods starts the containers of the JobSet, each in the network namespace of a host. They have the host names, the
// variables and the /dev/shm of the pods. The flags are appended to the command of the manifest.
func startPods(t *testing.T, image string, flags ...string) (pods []*podRun) {
	t.Helper()
	var set jobSet
	readJobSet(t, &set)
	job := set.Spec.ReplicatedJobs[0]
	spec := job.Template.Spec.Template.Spec
	argv := slices.Concat(spec.Containers[0].Command, []string{"--max-time=100ms", "--remeasure=0"}, flags)
	hosts := filepath.Join(t.TempDir(), "hosts") // in place of the cluster's name service
	names := "127.0.0.1 localhost\n"
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	for i, h := range netns.New(t, job.Template.Spec.Completions).Hosts {
		name := fmt.Sprintf("%s-%s-0-%d", set.Metadata.Name, job.Name, i)
		names += fmt.Sprintf("%s %s.%s\n", h.Four, name, set.Metadata.Name)
		p := &podRun{host: h, stdout: new(proctest.Buffer), stderr: new(proctest.Buffer), out: t.TempDir(),
			ended: make(chan struct{})}
		args := []string{"--entrypoint", argv[0], "--hostname", name, "--network", "ns:/run/netns/" + h.Space,
			"--volume", hosts + ":/etc/hosts", "--volume", p.out + ":/work/out",
			"--shm-size", strings.TrimSuffix(spec.Volumes[0].EmptyDir.SizeLimit, "i")}
		var expand []string // $(NAME) in the command
		for _, e := range spec.Containers[0].Env {
			switch from := e.ValueFrom; {
			case from.SecretKeyRef != nil:
				e.Value = "a secret of this test"
			case from.FieldRef != nil && from.FieldRef.FieldPath == completionIndex:
				e.Value = fmt.Sprint(i)
			case from.FieldRef != nil:
				t.Fatalf("the test does not know %s", from.FieldRef.FieldPath)
			}
			args, expand = append(args, "--env", e.Name+"="+e.Value), append(expand, "$("+e.Name+")", e.Value)
		}
		// Kubernetes adds variables for services. The last one belongs to a service with the name of the program.
		for _, service := range []string{"KUBERNETES_SERVICE_HOST=10.96.0.1", "KERNBENCH_PORT=tcp://10.96.0.7:29400"} {
			args = append(args, "--env", service)
		}
		args = append(args, image)
		for _, arg := range argv[1:] {
			args = append(args, strings.NewReplacer(expand...).Replace(arg))
		}
		p.cmd = exec.CommandContext(ctx, "../../scripts/image-run.sh", args...)
		p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = p.stdout, p.stderr, time.Second
		pods = append(pods, p)
	}
	t.Cleanup(cancel)
	must.Do(t, os.WriteFile(hosts, []byte(names), 0o644))
	for _, p := range pods {
		must.Do(t, p.cmd.Start())
		go func() { p.cmd.Wait(); close(p.ended) }()
	}
	return pods
}

// expect waits for the end of the container and checks its exit code.
func (p *podRun) expect(t *testing.T, code int) {
	t.Helper()
	<-p.ended
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d; stdout:\n%s\nstderr:\n%s", got, code, p.stdout, p.stderr)
	}
}

// rows reads the journal that the container wrote.
func (p *podRun) rows(t *testing.T) []journal.Row {
	t.Helper()
	_, run, err := journal.LoadRun(filepath.Join(p.out, "collectives"))
	must.Do(t, err)
	return run.Rows
}

// The JobSet's containers measure over the network between them.
func checkPods(t *testing.T, image string) {
	pods := startPods(t, image)
	for _, p := range pods {
		p.expect(t, 0)
	}
	rows := pods[0].rows(t)
	if len(rows) != 2 {
		t.Errorf("%d rows, want 2; stdout:\n%s", len(rows), pods[0].stdout)
	}
	for _, row := range rows {
		if network := row.Details["network"]; row.Status != "ok" || *row.NumRanks != 8 ||
			!strings.Contains(network, "kernbench-node-0-0, kernbench-node-0-1: ") {
			t.Errorf("%s, %d ranks, network %s: %s", row.Status, *row.NumRanks, network, row.Reason)
		}
	}
}

// If a container is killed, as by the kernel when memory is short, the row names its node.
func checkKilledPod(t *testing.T, image string) {
	pods := startPods(t, image, "--trials=20")
	for !strings.Contains(pods[0].stderr.String(), "[1/40] ") {
		select {
		case <-pods[0].ended:
			t.Fatalf("it has ended; stdout:\n%s\nstderr:\n%s", pods[0].stdout, pods[0].stderr)
		case <-time.After(10 * time.Millisecond):
		}
	}
	must.Do(t, syscall.Kill(pods[1].first(t), syscall.SIGKILL))
	pods[1].expect(t, 128+int(syscall.SIGKILL))
	pods[0].expect(t, 1)
	if want := "node 1 (host kernbench-node-0-1, pid 1) was lost"; !strings.Contains(pods[0].stderr.String(), want) {
		t.Errorf("no %q in:\n%s", want, pods[0].stderr)
	}
	rows := pods[0].rows(t)
	if len(rows) < 2 {
		t.Fatalf("%d rows", len(rows))
	}
	last := rows[len(rows)-1]
	if rows[0].Status != "ok" || last.Status != "failed" || !strings.Contains(last.Why(), "host kernbench-node-0-1") {
		t.Errorf("the first row is %s, the last one %s: %s", rows[0].Status, last.Status, last.Reason)
	}
}

// first returns the first process of the container, which has PID 1 there.
func (p *podRun) first(t *testing.T) int {
	t.Helper()
	for _, dir := range must.Get(filepath.Glob("/proc/[0-9]*"))(t) {
		pid := must.Get(strconv.Atoi(filepath.Base(dir)))(t)
		status, err := os.ReadFile(dir + "/status")
		if err == nil && p.host.Has(pid) && strings.Contains(string(status), fmt.Sprintf("\nNSpid:\t%d\t1\n", pid)) {
			return pid
		}
	}
	t.Fatalf("the container of %s has no first process", p.host.Name)
	return 0
}
