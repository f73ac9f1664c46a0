// Package server is the HTTP side of a running program: the status page, the API that the commands status, wait and
// deadletters talk to, metrics for Prometheus, and health checks. It knows the program by the Controller interface only.
//
// What changes state (POST) wants the header X-Replicator, which a page in a browser can't send to another site, and a
// bearer token where one is configured. Requests whose Host names neither a loopback address nor the address listened on
// are refused where no token is configured, so that a name that resolves to 127.0.0.1 opens nothing. No answer holds a
// body, a password or a DSN.
package server
