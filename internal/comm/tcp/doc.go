// Package tcp connects ranks on different hosts. It lets the ranks find each other and carries the messages of a group
// over TCP, without copying them in user space. Package shm does the same within a host. Package tcp moves bytes and
// does not depend on collectives.
//
// Two ranks on different hosts have three connections: one for collectives, one for messages of the program and one for
// control. With a single connection, messages of one kind would wait behind messages of another kind. On the control
// connection, a rank reports that the group has failed or that it is leaving, and answers which call it is in. Two
// ranks on the same host have only the control connection.
//
// A [Link] never blocks: sends and receives are posted in order, and Progress moves as much as possible in both
// directions. A waiting rank first calls Progress repeatedly, then sleeps in poll(2). Two ranks therefore cannot
// deadlock even if they send each other more than the kernel buffers.
//
// # Trust
//
// Every connection begins with a handshake, in which both sides prove that they know a key (package connection). The
// key is derived from the secret of the group and the data that the ranks exchanged when they joined. Every control
// message is authenticated; data is not. Nothing is encrypted.
//
// # Detection of failures
//
// When a process ends, the kernel closes its connections. A host that is cut off from the network closes nothing. The
// kernel therefore probes the control connection every second (keep-alive) and gives it up after the silence given to
// NewControl. Data connections are not probed, because a slow receiver is not a failure. The peer always reads its
// control connection.
package tcp
