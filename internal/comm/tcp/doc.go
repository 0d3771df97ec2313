// Package tcp connects ranks on different hosts: TCP connections that carry the messages of a group without copies of
// their own, and the way the ranks find each other. Package shm does the same within a host. It moves bytes and knows
// nothing about collectives.
//
// Between two ranks of different hosts there are three connections, so that nothing queues behind something else: one
// for collectives, one for messages of the program, and one for control. On the control connection a rank reports that
// the group has failed, that it leaves, or, when asked, which call it is in. Ranks of one host have only the control
// connection.
//
// A [Link] never blocks: sends and receives are posted in order, and Progress moves as much as possible in both
// directions. A waiting rank calls it repeatedly, then sleeps in poll(2). So two ranks that send each other more than
// the kernel buffers cannot deadlock.
//
// # Trust
//
// Every connection begins with a proof of a common key (package connection), which is derived from the secret of the
// group and the data that the ranks exchanged when they joined. Control messages are authenticated one by one; data is
// not, and nothing is encrypted.
//
// # Detection of failures
//
// When a process ends, its connections close: end of stream or reset. A host that is cut off closes nothing. So the
// kernel probes the control connection, which the other side always reads, every second, and gives it up after
// Config.Silence. Data connections are not probed: a slow receiver is not a failure.
package tcp
