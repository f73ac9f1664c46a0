// Package server is the program's HTTP side: a status page, an API, metrics and health, and the client that commands
// use to talk to the running program.
//
//	GET  /                                   status page: plain HTML, renews itself, needs no JavaScript
//	GET  /api/v1/status                      {"views": [replicator.ViewStatus…]}, with what [verify] found
//	GET  /api/v1/wait?gtid=SET&view=V&timeout=10s   200 once the views (all, if none is named) include it; 504 if they don't in time.
//	                                         pos=FILE:POS instead of gtid
//	POST /api/v1/views/{view}/rebuild        {"from": OFFSET, "in_place": true}, both optional; 202
//	POST /api/v1/views/{view}/pause|resume   202
//	POST /api/v1/deadletters/retry|drop      {"ids": […]}, {"view": V} or {"all": true}; {"tried": n, "left": n}, {"dropped": n}
//	GET  /metrics                            Prometheus; every name begins with replicator_
//	GET  /healthz                            200 while the process answers
//	GET  /readyz                             200 if every pipeline runs and its lag is known, else 503; both say so as JSON
//
// An error is {"error": TEXT} with a status that fits.
//
// # Who may do what
//
// Reading needs nothing. A request that changes something needs "Authorization: Bearer TOKEN" if there is a token, and
// a server that other machines can reach refuses such requests if there is none. Browsers are kept from being used
// against the program: requests that change something are refused if they come from another site's page (by Origin and
// Sec-Fetch-Site, which a page can't forge), and a server on loopback answers only to loopback names, so that a foreign
// name that was made to point to 127.0.0.1 gives nothing away. Answers hold no secrets and no values of rows.
//
// # Failure and life
//
// Listen binds the address and serves until Close, which ends waiting requests, lets short ones finish and then cuts
// off the rest; its goroutine ends before Close returns. Headers, bodies, times and the number of waiting requests are
// bounded.
package server
