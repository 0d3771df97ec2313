package syncgroup

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"

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
	g, err := JoinStream(connection.Plain(mine), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
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

// TestHubDistrustsRanks sends what no stream would send.
func TestHubDistrustsRanks(t *testing.T) {
	for want, bytes := range map[string][]byte{
		"malformed":           {0, 0, 0, 4, 'x', 1, 2, 3},
		"malformed frame":     {0, 0, 0, 1, '?'},
		"broke: decoding":     {0, 0, 0, 0},
		"more than the limit": {255, 255, 255, 255, 'x'},
		"called again":        {0, 0, 0, 1, 'b', 0, 0, 0, 1, 'b'},
		"its process ended":   {0, 0, 0, 9, 'b'},
		"connection lost":     {},
	} {
		good, goodHub := net.Pipe()
		bad, badHub := net.Pipe()
		g, err := JoinStream(connection.Plain(good), 0, 2)
		if err != nil {
			t.Fatal(err)
		}
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
	f.Add(encodeGathered([][]byte{encodeValues(nil, []int64{1, -2}), nil}), 2)
	f.Add([]byte{255, 255, 255, 255}, 1)
	f.Fuzz(func(t *testing.T, data []byte, ranks int) {
		ranks &= 7
		all, err := decodeGathered(data, ranks)
		if err != nil {
			return
		}
		perRank := make([][]byte, ranks)
		for r := range all {
			perRank[r] = encodeValues(nil, all[r])
		}
		if again := encodeGathered(perRank); !slices.Equal(again, data) {
			t.Errorf("decoded %v, encoded again %v", data, again)
		}
	})
}
