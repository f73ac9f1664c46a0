// Package socket has connections whose reads and writes cost a process less that does a little, and does it often.
//
// The runtime takes each system call for one that may block. It notes when it began, and has its monitor (sysmon) watch
// it: a thread that sleeps while the process is idle, is woken by the first call after that, looks around for some 20 µs
// and sleeps again. A program that works for 100 µs a thousand times a second pays for that with a third of its CPU
// time. Sockets of package net don't block, so here their calls are made without telling the runtime, as its own poller
// makes its calls: 1,000 transactions a second (go run ./bench -only latency, in turns) took 216 to 225 µs of CPU each
// into Redis before, 151 to 153 since, and 328 to 345 into MySQL before, 230 to 236 since. Who has to wait waits for
// the poller, as ever, and deadlines hold. Pools of go-redis and go-sql-driver look into the socket of an idle
// connection before they use it: that look is made in the same way.
//
// A process with the race detector has connections as they are: the detector learns from the calls that the runtime is
// told of what happened before what.
package socket
