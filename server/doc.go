// Package server is the program's HTTP side: a status page, an API, metrics and health, and the client that commands
// use to talk to the running program.
//
//	GET  /                                   status page: complete without JavaScript, live with it
//	GET  /deadletters?view=V                 the dead letters, by what is wrong with them
//	GET  /live                               what the page shows, again and again, as an event stream
//	GET  /api/v1/…                           the API: docs/openapi.json says what it takes and answers
//	POST /api/v1/…
//	GET  /metrics                            Prometheus; every name begins with replicator_
//	GET  /healthz                            200 while the process answers
//	GET  /readyz                             200 if every pipeline runs and its lag is known, else 503; both as JSON
//
// An error is {"error": TEXT} with a status that fits.
//
// # Who may do what
//
// Reading needs nothing. A request that changes something, or shows the values of a row, needs "Authorization: Bearer
// TOKEN" if there is a token, and a server that other machines can reach refuses such requests if there is none.
// Browsers are kept from being used against the program: requests that change something are refused if they come from
// another site's page (by Origin and Sec-Fetch-Site, which a page can't forge), and a server on loopback answers only
// to loopback names, so that a foreign name that was made to point to 127.0.0.1 gives nothing away. Answers hold no
// secrets, and no values of rows but those of the one dead letter that was asked for. The page runs its own script and
// no other.
//
// # Failure and life
//
// A goroutine looks at the program every few seconds, so that the page can show the last hour; what it remembers of a
// view has a fixed size. Listen binds the address and serves until Close, which ends waiting requests, lets short ones
// finish and then cuts off the rest; its goroutines end before Close returns. Headers, bodies, times and the number of
// waiting requests are bounded.
package server
