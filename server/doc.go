// Package server is the program's HTTP side: a status page, an API, metrics and health, and the client that commands
// use to talk to the running program.
//
//	GET  /                                   status page: complete without JavaScript, live with it
//	GET  /deadletters?view=V                 the dead letters, grouped by reason
//	GET  /live                               updates of the status page, as an event stream
//	GET  /api/v1/…                           the API, documented in docs/openapi.json
//	POST /api/v1/…
//	GET  /metrics                            Prometheus; every name begins with replicator_
//	GET  /healthz                            200 while the process answers
//	GET  /readyz                             200 if every view is kept up and its lag is known, else 503; both as JSON
//
// An error is {"error": TEXT} with an HTTP status of the same meaning.
//
// # Who may do what
//
// Most reads need no token. A request that changes something, or shows the values of a row, needs "Authorization:
// Bearer TOKEN" if the server has a token. A server without a token refuses these requests if other machines can reach
// it.
//
// A malicious page must not attack the program through an operator's browser. So the server refuses changing requests
// from other sites' pages. It checks Origin and Sec-Fetch-Site, which a page can't forge. A server on loopback answers
// only requests for loopback names, because an attacker can point another name to 127.0.0.1. The status page runs only
// its own script.
//
// Answers contain no secrets. They contain values of rows only for a single requested dead letter. Lists of dead
// letters contain the letters' keys only if the server has no token, because a client needs no token to read these
// lists.
//
// # Life cycle
//
// A goroutine observes the program every few seconds, so that the page can show the last hour. The history of a view
// has a fixed size. Listen binds the address and serves until Close. Close ends waiting requests, lets short ones
// finish, cuts off the rest, and returns after the server's goroutines have ended. Headers, bodies, durations and the
// number of waiting requests are bounded.
package server
