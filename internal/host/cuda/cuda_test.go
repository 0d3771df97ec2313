package cuda

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/cudatest"
	"github.com/kernbench/kernbench/internal/host/dynlib"
)

var log string

func TestMain(m *testing.M) {
	os.Exit(cudatest.Main(m, func(lib string) map[string]string {
		log = lib + ".calls"
		return map[string]string{LibraryVariable: lib, ManagementVariable: lib, cudatest.LogVariable: log,
			cudatest.DevicesVariable: "2"}
	}))
}

func devices(t *testing.T) []*Device {
	t.Helper()
	d := must.Get(Open())(t)
	return must.Get(d.Devices())(t)
}

func TestDevices(t *testing.T) {
	list := devices(t)
	if len(list) != 2 || list[1].Name != "Fake GPU 1" || list[1].BusID != "0000:01:00.0" || list[0].Bytes != 1<<30 ||
		list[0].Mode() != "Default" {
		t.Errorf("devices: %+v", list)
	}
	if c, err := list[0].Compute(); c != 80 || err != nil {
		t.Errorf("compute capability %d, %v", c, err)
	}
	if list[0].Has(Multicast) || !list[0].Has(CooperativeLaunch) {
		t.Error("attributes are mixed up")
	}
	if can, err := list[0].Reaches(list[1]); !can || err != nil {
		t.Errorf("peer access: %v, %v", can, err)
	}
	if !strings.Contains(list[0].Driver().String(), "12.4") {
		t.Errorf("driver %v", list[0].Driver())
	}
}

// NVML finds the device by its PCI address.
func TestReadings(t *testing.T) {
	list := devices(t)
	r, err := list[1].Read()
	if err != nil || r.String() != "1980 MHz, memory 3201 MHz, 120 W, 40 °C" {
		t.Errorf("the instruments show %v, %v", r, err)
	}
	elsewhere := *list[0]
	elsewhere.BusID = "nowhere"
	if _, err := elsewhere.Read(); err == nil || err.Error() != "nvmlDeviceGetHandleByPciBusId: Not Found (6)" {
		t.Errorf("a device that is not there: %v", err)
	}
}

func TestMemory(t *testing.T) {
	c, err := devices(t)[0].Context()
	if err != nil {
		t.Fatal(err)
	}
	err = c.Do(func() error {
		p, err := c.Alloc(1000)
		if err != nil {
			return err
		}
		in, out := make([]byte, 1000), make([]byte, 990)
		for i := range in {
			in[i] = byte(i * 7)
		}
		if err := c.Write(p, in); err != nil {
			return err
		}
		if err := c.Read(out, p+10); err != nil {
			return err
		}
		if !slices.Equal(out, in[10:]) {
			t.Error("what was written is not what is read")
		}
		// The handle is passed by value, as it would be in another process.
		h, err := c.Export(p)
		if err != nil {
			return err
		}
		q, err := c.Import(h)
		if err != nil {
			return err
		}
		if q == p {
			t.Error("the import is the memory itself, not a mapping of it")
		}
		if err := c.Read(out, q+10); err != nil || !slices.Equal(out, in[10:]) {
			t.Errorf("the imported memory has other content (%v)", err)
		}
		if err := c.CloseImport(q); err != nil {
			return err
		}
		if err := c.Free(p); err != nil {
			return err
		}
		if err := c.Read(out, p); Code(err) != 1 {
			t.Errorf("reading freed memory: %v", err)
		}
		_, err = c.Alloc(2 << 30)
		if Code(err) != CodeOutOfMemory ||
			!strings.Contains(err.Error(), "cuMemAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY)") {
			t.Errorf("too much memory: %v", err)
		}
		if Sticky(err) {
			t.Error("running out of memory is no broken context")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	calls, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(calls), "cuIpcOpenMemHandle named flags 1\n") {
		t.Errorf("the handle did not arrive whole: %v\n%s", err, calls)
	}
}

func TestModuleRefused(t *testing.T) {
	c, err := devices(t)[0].Context()
	if err != nil {
		t.Fatal(err)
	}
	os.Setenv(cudatest.RefuseVariable, "multimem")
	defer os.Unsetenv(cudatest.RefuseVariable)
	err = c.Do(func() error {
		files := fstest.MapFS{"ptx/multimem.ptx": {Data: []byte(".entry multimem_f32_2(\n")},
			"ptx/push.ptx": {Data: []byte(".entry push_f32_2(\n")}}
		_, refused := c.Kernel(&files, "multimem", "multimem_f32_2")
		if refused == nil || !strings.Contains(refused.Error(), "loading the kernels of multimem") {
			t.Errorf("refused PTX: %v", refused)
		}
		if _, err := c.Kernel(&files, "push", "push_f32_9"); err == nil ||
			!strings.Contains(err.Error(), "kernel push_f32_9 of push") {
			t.Errorf("missing kernel: %v", err)
		}
		_, err = c.Kernel(&files, "push", "push_f32_2")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The reason why there is no multicast memory is a single line, and an old driver still serves
// everything else.
func TestNoMulticast(t *testing.T) {
	d := *devices(t)[1]
	if err := d.NoMulticast(); err == nil || err.Error() != "GPU 1 (Fake GPU 1) has no multicast memory" {
		t.Errorf("a GPU without: %v", err)
	}
	t.Setenv(cudatest.MulticastVariable, "1")
	if err := d.NoMulticast(); err != nil {
		t.Errorf("a GPU with multicast memory: %v", err)
	}
	lib := must.Get(dynlib.Open(dynlib.Spec{Name: "old driver", Sonames: []string{"libc.so.6"}}))(t)
	old := &Driver{lib: lib, functions: d.driver.functions}
	old.noBlocks = old.bind(blockFunctions)
	d.driver = old
	if err := d.NoMulticast(); err == nil ||
		!strings.HasPrefix(err.Error(),
			"the driver is too old for multicast memory: old driver (libc.so.6) has no cuMemAddressFree") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("an old driver: %v", err)
	}
}

// The watcher names the processes on the GPUs, how busy each is, and why the clock is held down.
func TestWatcher(t *testing.T) {
	w := NewWatcher()
	if w == nil {
		t.Fatal("NVML lists no GPU")
	}
	if list := AllInstalled(); len(list) != 2 || list[1].Name != "Fake GPU 1" || list[1].Bytes != 1<<30 {
		t.Errorf("installed: %+v", list)
	}
	if use := w.Read(); len(use.Processes) != 0 || use.Held != 0 {
		t.Errorf("an idle GPU: %+v", use)
	}
	t.Setenv(cudatest.ProcessesVariable, "70:35:/usr/bin/python3,71::/opt/idle")
	t.Setenv(cudatest.ReasonsVariable, "0x65")
	w.devices, w.since = w.devices[:1], w.since[:1]
	use := w.Read()
	want := []Process{{70, "python3", 35}, {71, "idle", 0}}
	if !slices.Equal(use.Processes, want) || use.Processes[0].String() != "python3 (process 70)" {
		t.Errorf("processes %+v, want %+v", use.Processes, want)
	}
	if use.Held&HeldByPower == 0 || use.Held.Faults() != "its temperature" {
		t.Errorf("held by %#x: %q", uint64(use.Held), use.Held.Faults())
	}
}
