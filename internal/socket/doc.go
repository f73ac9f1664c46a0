// Package socket makes reads and writes of connections cheaper for a process that does little work, but does it often.
//
// The runtime treats each system call as one that may block. It notes when the call began, and its monitor (sysmon)
// checks it. The monitor is a thread that sleeps while the process is idle. The first call after that wakes the
// monitor, which checks for some 20 µs and sleeps again. A program that works for 100 µs a thousand times a second
// spends a third of its CPU time on that. Sockets of package net never block. So this package makes their calls without
// telling the runtime, as the runtime's own poller does. 1,000 transactions a second (go run ./bench -only latency, in
// turns) took 216 to 225 µs of CPU each into Redis before, and 151 to 153 since; into MySQL 328 to 345 before, and 230
// to 236 since. A caller that must wait still waits for the poller, and deadlines work. Pools of go-redis and
// go-sql-driver check the socket of an idle connection before they use it. That check also bypasses the runtime.
//
// With the race detector, connections are left unchanged: the detector learns the order of events from calls that the
// runtime knows.
package socket
