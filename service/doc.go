// Package service is the program as it runs: a configuration made into pipelines, and what can be asked of them or done
// to their views. Commands and HTTP are its users; they parse, print, and decide nothing.
//
// A Setup is what everything begins with: the configuration, and how a sink of it is opened. A Service is one
// configuration that runs. A Runner runs one configuration after another, as SIGHUP brings them, and its Front lets
// requests wait through the change. Verification, Explain, Check, Tail and Positions look at a view, or at what is
// remembered of it, without a running pipeline. Client and Wait ask a process that runs elsewhere.
package service
