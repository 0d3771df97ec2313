// Package connection is how processes of one job reach each other, prove that
// they belong together, talk, and notice that one is missing, refused or lost.
// Everything that meets does so by this package: nodes at a rendezvous, the ranks
// of another launcher's job, workers at their supervisor, a launch agent and its
// owner, the ranks of a process group. What they say is their own.
//
// # From an address to a message
//
// A [Service] has a banner, which names it and its version, and a secret. The side
// that listens lets in whoever knows the secret with [Service.Serve]; the other
// side calls [Service.Dial], once, or [Service.Find], which has patience and looks at
// several addresses. Each side proves to the other that it knows the secret, which
// itself never travels. At a unix socket the kernel also says whether the other
// process belongs to the same user. Whoever has proved nothing costs little: such
// connections are few at a time, each with a deadline and a fixed number of bytes, and
// the address that holds the most of them makes room for the others. [ListenTCP] and [ListenLocal] open the two kinds
// of address; [Pair] and [Pipe] need neither address nor proof.
//
// The result is a [Conn]. It carries frames: four bytes of length, a keyed hash if
// the two sides have proved something, and a message. A message is JSON, or what
// its MarshalBinary makes of it. None can be made up, changed, repeated or sent back
// without being noticed; nothing is encrypted. Over a unix socket open files travel
// beside a frame. Conn.Send waits for a slow peer and tells of errors. A [Link] never
// waits: it has a queue and a goroutine that empties it, and its errors are found by
// who receives.
//
// # Who is here
//
// [Group] decides who belongs: it has no clock and no socket. It is told who joins,
// who was heard, who was lost and that time has passed, and answers with who is
// refused and why, who has been silent for too long, and who is missing. Silence is
// counted in ticks and not by the clock: a process that was itself stopped for a
// while finds one tick waiting, not a group of dead peers. testdata has its rules as
// stories.
//
// [Collect] is enough for a group that meets once: it waits for one connection of
// every rank. A group that stays in touch has a coordinator, which is a [Core]: pure
// like Group, on which it is built, with messages in and orders out. A [Host] runs
// it: it gives each connection a number, tells the core what comes in and what time
// passes, sends what the core orders, and says to everybody twice a second that it
// lives. A member's side of the same is [Link.Run]. Both take a zero message for
// such a heart-beat.
//
// The process that hosts a group is a member of it too, number [OwnPeer]; it talks
// to itself over a pipe as the others do over the network.
package connection

import "time"

const (
	// HeartbeatInterval is how often each side says that it lives.
	HeartbeatInterval = 500 * time.Millisecond
	// SilenceLimit is how long a peer may say nothing before it is taken for dead,
	// unless the user says otherwise.
	SilenceLimit = 5 * time.Second
	// HandshakeTimeout bounds the handshake, and the first message after it. The
	// first bytes come at once from the right service, and never from many others.
	HandshakeTimeout = 5 * time.Second
	// Tick is the unit of time of a [Core].
	Tick = 100 * time.Millisecond

	// lingerTimeout is how long a closing connection waits for its peer to hear the end.
	lingerTimeout = time.Second
	// maxRedialPause is the longest pause between two attempts to reach somebody who is
	// not there yet.
	maxRedialPause = 50 * time.Millisecond
)
