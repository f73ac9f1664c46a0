// Package servers runs real MySQL, MariaDB, Redis, Valkey, Elasticsearch, OpenSearch and Kafka servers on loopback, for
// the tests, for `replicator demo` and for the benchmark. It installs nothing and needs no root.
//
// # Where a server comes from
//
// [Start] looks for the programs of a [Kind] in this order:
//
//  1. the cache: $REPLICATOR_SERVERS, or else replicator-servers in the user's cache directory;
//  2. a Debian suite, on a machine with apt. Start runs apt with its own sources, lists and empty package database. It
//     fetches the server and all libraries that the server needs, including the C library. apt checks the packages'
//     signatures. Start unpacks them into the cache and runs the server with the fetched C library, so the server may
//     be newer than the machine. A machine that is not Debian can name a mirror in $REPLICATOR_DEBIAN_MIRROR;
//  3. a server with a suitable version in PATH.
//
// No suite has MySQL 8.0 or 5.7 or MariaDB 11.4, and no distribution has Elasticsearch, OpenSearch or Kafka. They come
// from a Maven repository, and Start checks their SHA-256 sums. The repository is $REPLICATOR_MAVEN_REPOSITORY, or else
// the one in the configuration of the machine's Maven, or else the default of Debian's Maven. The database servers get
// their libraries from Debian. The other servers need Java, which comes from Debian if the machine has none.
//
// If a server can't be found anywhere, the error is a [*MissingError], which says what Start tried and what to do. A
// first fetch takes 20 to 60 seconds, and Start reports it through [Options.Progress].
//
// # Promises
//
//   - A directory in the cache under its final name is complete, because a fetch renames it at its end. A killed fetch
//     leaves a .part directory, which the next fetch removes. If several processes need the same server, they wait for
//     the first one to fetch it.
//   - Start picks ports below 32768 and below the kernel's ephemeral range, from which outgoing connections get their
//     ports. In that range, a client that keeps dialling a dead server's port may get that port as its own and prevent
//     the server's restart. A picked port stays reserved among processes that use this package until Close or the end
//     of the process. So a killed server gets its port back.
//   - [Start] and [Server.Restart] return when the server answers. They check that the server that answers is the one
//     that they started.
//   - A server runs with its defaults, except for ports, paths, memory, and the README's requirements for a source: the
//     binlog is on and in row format. Options.Args can change further settings.
//   - [Server.Kill] returns when the process, its threads and its port are gone. MySQL and MariaDB keep every
//     acknowledged commit. Redis keeps its last snapshot, or everything if it has an append-only file.
//   - On Linux, a server dies with the process that started it, even after kill -9. Only its directory is left, and the
//     next Start in any process removes it. The directory is in memory if the server was Small. On other systems, the
//     server keeps running, because only Linux can tie it to its parent.
//
// # Failure
//
// If a server ends while it starts, the error contains the end of its log. If it ends later, its clients notice.
// Restart starts it again on the same directory and port. If ctx ends during Start or Restart, they kill the process.
// If ctx ends during Stop, the server may still be stopping. Kill or Close then ends it.
//
// Several goroutines may use a [Server]. The caller of Start owns it and closes it.
package servers
