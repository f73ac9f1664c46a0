// Package socket makes reads and writes of connections cheaper for a process that does little work, but does it often.
//
// The runtime treats each system call as one that may block. The first call after a pause wakes its monitor thread
// (sysmon), which checks for some 20 µs and sleeps again. A program that works for 100 µs a thousand times a second
// spends a third of its CPU time on that. But calls on sockets of package net never block. So this package makes these
// calls without telling the runtime, as the runtime's own poller does. At 1,000 transactions a second (go run ./bench
// -only latency), each transaction into MySQL took 328 to 345 µs of CPU before, and 230 to 236 since. A caller that
// must wait still waits for the poller, and deadlines work.
//
// With the race detector, connections are left unchanged: the detector learns the order of events from calls that the
// runtime knows.
package socket
