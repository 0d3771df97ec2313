package launch

import "time"

// request is a frame from the supervisor to the agent: exactly one field is set. Files come in frames of their own
// before the launch that uses them, because one frame can carry only so many.
type request struct {
	Files  int            `json:"files,omitempty"` // this many descriptors come with this frame
	Launch *launchRequest `json:"launch,omitempty"`
	Stop   *stopRequest   `json:"stop,omitempty"`
}

// reply is a frame from the agent to the supervisor: exactly one field is set.
type reply struct {
	Hello    *hello        `json:"hello,omitempty"`
	Launched []wireStarted `json:"launched,omitempty"` // every process runs
	Refused  string        `json:"refused,omitempty"`  // the launch did not come about; nothing of it is left
	Output   *Output       `json:"output,omitempty"`
	Exited   *Exit         `json:"exited,omitempty"`
	Done     *Outcome      `json:"done,omitempty"`
	Bye      bool          `json:"bye,omitempty"` // the agent exits and has no child
}

// hello opens the conversation; the token proves that the peer is the process that was started for this purpose.
type hello struct {
	Token string `json:"token"`
}

type launchRequest struct {
	ID            int           `json:"id"`
	Procs         []wireProc    `json:"procs"`
	WatchEnv      [][]byte      `json:"watch_env,omitempty"`
	Grace         time.Duration `json:"grace"`
	Settle        time.Duration `json:"settle"`
	LogLimit      int64         `json:"log_limit"`
	StopOnFailure bool          `json:"stop_on_failure,omitempty"`
	StoppedLimit  time.Duration `json:"stopped_limit,omitempty"`
}

// wireProc is a Proc on the wire. Argv, Env and paths are bytes and not JSON strings, which cannot carry what is not
// UTF-8 and would silently change it.
type wireProc struct {
	Rank           int      `json:"rank"`
	Argv           [][]byte `json:"argv"`
	Env            [][]byte `json:"env"`
	Dir            []byte   `json:"dir"`
	Files          []int    `json:"files,omitempty"` // indices into the files sent before
	Stdout, Stderr []byte   `json:",omitempty"`
	CPUs           []int    `json:"cpus,omitempty"`
}

// wireStarted is a Started on the wire; Env follows the order of launchRequest.WatchEnv.
type wireStarted struct {
	Rank int      `json:"rank"`
	PID  int      `json:"pid"`
	Env  [][]byte `json:"env,omitempty"`
}

// stopRequest names its launch, for it may cross the end of it on the way.
type stopRequest struct {
	ID     int    `json:"id"`
	Reason string `json:"reason"`
	Dump   bool   `json:"dump,omitempty"`
}

func toBytes(texts []string) [][]byte {
	out := make([][]byte, len(texts))
	for i, s := range texts {
		out[i] = []byte(s)
	}
	return out
}

func toStrings(texts [][]byte) []string {
	out := make([]string, len(texts))
	for i, b := range texts {
		out[i] = string(b)
	}
	return out
}
