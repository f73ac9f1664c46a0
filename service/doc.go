// Package service runs the program. It turns a configuration into pipelines, answers questions about them, and changes
// their views. Commands and the HTTP server use it: they parse and print, and all decisions are made here.
//
// A Setup is a configuration with the way to open its sinks; everything starts with it. A Service runs one
// configuration. A Runner runs one configuration after another, as SIGHUP loads them. Its Front makes requests wait
// during the change. Verification, Explain, Check, Tail and Positions read a view or its saved state without a running
// pipeline. Client and Wait ask a process that is already running.
package service
