package syncgroup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/proctest"
	"github.com/kernbench/kernbench/internal/process/connection"
)

func TestHubEndsWithItsRanks(t *testing.T) {
	groups, wait := streamsWithHub(t, 3, tcpPair)
	together(groups, func(g Group) error { return g.Barrier(hang(t)) })
	closeAll(groups)
	if err := wait(); err != nil {
		t.Errorf("after an orderly end the hub returned %v", err)
	}
}

func TestHubNamesLostConnection(t *testing.T) {
	for _, connect := range []pair{pipePair, tcpPair} {
		groups, wait := streamsWithHub(t, 3, connect)
		groups[1].(*stream).link.Abort()
		for _, r := range []int{0, 2} {
			wantAborted(t, groups[r].Barrier(hang(t)), 1, "connection lost")
		}
		wantAborted(t, groups[1].Barrier(hang(t)), HubRank, "connection lost")
		closeAll(groups)
		wantAborted(t, wait(), 1, "connection lost")
	}
}

func TestHubContext(t *testing.T) {
	mine, theirs := tcpPair(t)
	g := must.Get(JoinStream(connection.Plain(mine), 0, 1))(t)
	defer g.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("interrupted"))
	ended := make(chan error)
	go func() { ended <- ServeHub(ctx, []*connection.Conn{connection.Plain(theirs)}) }()
	<-g.(*stream).ended
	wantAborted(t, g.Barrier(hang(t)), HubRank, "interrupted")
	g.Close()
	wantAborted(t, <-ended, HubRank, "interrupted")
}

// TestHubDistrustsRanks sends messages to the hub that no correct rank would send.
func TestHubDistrustsRanks(t *testing.T) {
	for want, bytes := range map[string][]byte{
		"broke: decoding":     {0, 0, 0, 0},
		"more than the limit": {255, 255, 255, 255, 'x'},
		"its process ended":   {0, 0, 0, 9, 'b'},
		"connection lost":     {},
	} {
		good, goodHub := net.Pipe()
		bad, badHub := net.Pipe()
		g := must.Get(JoinStream(connection.Plain(good), 0, 2))(t)
		ended := make(chan error)
		go func() {
			ended <- ServeHub(context.Background(), []*connection.Conn{connection.Plain(goodHub), connection.Plain(badHub)})
		}()
		go func() {
			bad.Write(bytes)
			if want == "its process ended" || want == "connection lost" {
				bad.Close()
			}
			io.Copy(io.Discard, bad)
			bad.Close()
		}()
		<-g.(*stream).ended
		wantAborted(t, g.Barrier(hang(t)), 1, want)
		g.Close()
		bad.Close()
		wantAborted(t, <-ended, 1, want)
	}
}

func FuzzDecodeGathered(f *testing.F) {
	f.Add(encodeGathered([][]byte{{1, 254}, nil}), 2)
	f.Add([]byte{255, 255, 255, 255}, 1)
	f.Fuzz(func(t *testing.T, data []byte, ranks int) {
		ranks &= 7
		all, err := decodeGathered(data, ranks)
		if err != nil {
			return
		}
		if again := encodeGathered(all); !slices.Equal(again, data) {
			t.Errorf("decoded %v, encoded again %v", data, again)
		}
	})
}

// TestHubStories runs scripts against hubs. "ranks N" creates a hub; each other verb is an action of a
// rank.
func TestHubStories(t *testing.T) {
	var h *hub
	proctest.Stories(t, func(verb string, args []string) (answers []string) {
		var numbers []byte
		for _, arg := range args {
			n, _ := strconv.Atoi(arg)
			numbers = append(numbers, byte(n))
		}
		peer, text := int(numbers[0])+1, strings.Join(args[1:], " ")
		hear := func(f frame) []action { return h.Receive(peer, f, 0) }
		var orders []action
		switch verb {
		case "ranks":
			h = newHub(int(numbers[0]))
		case "barrier":
			orders = hear(frame{kind: frameBarrier})
		case "exchange":
			orders = hear(frame{frameExchange, numbers[1:]})
		case "abort":
			orders = hear(frame{frameAbort, []byte(text)})
		case "leave":
			orders = hear(frame{kind: frameLeave})
		case "lose":
			orders = h.Disconnect(peer, text, 0)
		case "send":
			orders = hear(frame{text[0], []byte(text[1:])})
		default:
			t.Fatalf("no verb %q", verb)
		}
		if len(orders) != 0 && len(orders) != len(h.arrived) {
			t.Errorf("%s %v: %d of %d ranks are told", verb, args, len(orders), len(h.arrived))
		}
		for _, o := range orders[:min(1, len(orders))] { // all ranks get the same orders
			switch f := o.Message; f.kind {
			case frameBarrier:
				answers = append(answers, "to all: all have come")
			case frameExchange:
				all, err := decodeGathered(f.payload, len(h.arrived))
				if err != nil {
					t.Error(err)
				}
				answers = append(answers, fmt.Sprintf("to all: %v", all))
			case frameAbort:
				answers = append(answers, "to all: "+decodeAbort(f.payload).Error())
			}
		}
		if h.Over() {
			answers = append(answers, "over")
		}
		return answers
	})
}
