// Package tcp is how ranks on different hosts reach each other: TCP
// connections that carry the messages of a group without copies of their own,
// and how the ranks find each other. Package shm is its sibling within a host. It moves bytes and
// knows nothing of collectives.
//
// Between two ranks of different hosts there are three connections, so that
// nothing waits behind something else: one for collectives, one for the
// program's own messages, and one for control, on which a rank says that the
// group has failed, that it leaves, or, when asked, which call it is in. Ranks
// of one host have the last one only.
//
// A [Link] is never blocked on: sends and receives are posted in order, and
// Progress moves what can be moved, both ways. Who waits calls it again and
// again, then sleeps in poll(2). So two ranks that send each other more than the
// kernel buffers cannot hold each other up.
//
// # Trust
//
// Every connection begins with a proof of a common key (package connection), made
// from the group's secret and from what the ranks told each other when they
// joined. Control messages are authenticated one by one; the data is not, and
// nothing is encrypted.
//
// # What is noticed, and how
//
// A process that ends closes its connections: end of stream or reset. A host
// that is cut off closes nothing, so the kernel probes the control connection,
// on which the other side always reads, every second, and gives it up after
// Config.Silence. Data connections are left alone by this: a receiver that
// takes its time is no failure.
package tcp
