module replicator

go 1.26.8
