// Package service runs the program. It turns a configuration into pipelines, reports on them, and changes their views.
// Commands and the HTTP server parse and print; this package makes all decisions.
//
// Everything starts with a Setup: a configuration and the function that opens its sinks. A Service runs one
// configuration. A Runner runs one configuration after another, as SIGHUP loads them. The Runner's Front makes requests
// wait while the configuration changes. Verification, Explain, Check, Tail and Positions need no running pipeline. They
// read a view or its saved state themselves. Client and Wait ask a process that is already running.
package service
