package rendezvous

// message is one frame, in either direction: exactly one field is set.
type message struct {
	// From a member.
	Join   *join   `json:"join,omitempty"`
	Ready  *ready  `json:"ready,omitempty"`
	Failed *failed `json:"failed,omitempty"`
	Done   *done   `json:"done,omitempty"`

	// From the host.
	Start    *Round   `json:"start,omitempty"`
	Stop     *Verdict `json:"stop,omitempty"`
	Finished bool     `json:"finished,omitempty"`
	Refused  string   `json:"refused,omitempty"`

	// From both.
	Beat bool `json:"beat,omitempty"`
}

// join asks for a place in the group. What all nodes must have in common is
// repeated by each, so that a command that differs is noticed.
type join struct {
	ID          string `json:"id"`
	Nodes       int    `json:"nodes"`
	Procs       int    `json:"procs"`
	MaxRestarts int    `json:"max_restarts"`
	Node        int    `json:"node"` // the rank it insists on, or AnyNode
	Host        string `json:"host"`
	PID         int    `json:"pid"`
	Addr        string `json:"addr"` // where the other nodes reach it
}

// ready says that nothing of an earlier round is left. The port is free on this
// node, should it become the master.
type ready struct {
	Attempt int `json:"attempt"`
	Port    int `json:"port"`
}

// failed says what failed in a round; one that is over has its verdict already.
type failed struct {
	Attempt int     `json:"attempt"`
	Failure Failure `json:"failure"`
}

// done says that every rank of this node has ended well.
type done struct {
	Attempt int `json:"attempt"`
}
