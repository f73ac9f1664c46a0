// Package elastic keeps views as Elasticsearch documents: one document per key, with fields merged from every cell that
// feeds the view.
//
// # Promises
//
//   - replicator.State.Next (judge.Batch) decides about each write. The state is in the document itself, and changes
//     only together with it. So any number of replicators may write, and crash between any two requests.
//   - Applied changes are as durable as the index's translog.durability says (by default: on disk).
//   - _source keeps every digit of integers and decimals of any size. A value that can't be stored unchanged is
//     rejected: text that is not UTF-8, a number that is not finite, or a value that the mapping refuses. Reasons name
//     the field, never the value.
//   - Readers never see a half-filled view: see Generations.
//   - The sink only uses requests that every Elasticsearch 8 answers: no scripts, no delete_by_query.
//
// # What is stored
//
// Settings.Index is an alias. It leads to an index that replicator makes, INDEX-r1, with the mapping and the settings
// of the view's files. Each document has the object _replicator, with the state of each cell under its name
// (TABLE.COLUMN, and @SOURCE for a shard): its key (k), version (v), order (o), as-of (a), and whether it is a dead
// letter (d). If several cells may share a document, the state also holds the fields that the cell contributes (f),
// whether it waits until another source's row is deleted (w), and whether a waiting cell's contribution can't be stored
// (b). Only one part of _replicator is indexed: whether the document is hidden. The state of a deleted cell stays for a
// while. The alias's filter hides documents without a contribution. (GET INDEX/_doc/ID applies no filter and finds
// them.)
//
// The document replicator:marks in each index holds the view's marks. Removing, emptying or restoring the index also
// affects the marks, and so Target.Mark notices the loss. Writes go through an alias with a random name,
// INDEX-r1-write-…, and require that the name is an alias. So a write after the index was removed fails. Otherwise,
// Elasticsearch would create an index with a guessed mapping.
//
// # How a batch is applied
//
// Documents are read by id (in real time, not as of the last refresh), judged, and written on the condition that they
// have not changed since (if_seq_no and if_primary_term, or create). A document that fails on that condition goes
// through another round. If most documents were new lately, the next ones are created without being read. A document
// that this target wrote lately is judged from memory. If such an assumption is wrong, the write fails on its
// condition, and the document is read after all. External versions are not used. They compare one number, so they can't
// tell two rows of one version apart, and they can't keep the as-of of a re-read when a later put replaces the
// document.
//
// Every item's status is checked. Items that the server had no room for (429, 5xx) are sent again a few times. A
// request that is too large is split. A refused document (400) is written again without the contribution of the cell
// that caused it.
//
// # Generations
//
// A view that is opened with a new definition, or after Forget, gets the next index (INDEX-r2), which is empty. The
// alias shows the old index, which gets no more writes, until every source has filled the view. Then one request moves
// the alias, and the old index is removed a little later. A rebuild (Shadowing) fills the next index beside the live
// one, which is kept up to date meanwhile. Swap moves the aliases of all rebuilt views in one request.
//
// # Forgetting
//
// Deleted cells below a horizon are forgotten, and a document without any other cell is removed. The horizons are
// stored with the marks. A request that was judged earlier could create a removed document again. To prevent that, the
// write alias gets a new name first (gate).
//
// # Failure
//
// Temporary: no answer, 429, 5xx, or an index that is blocked (full disk) or lacks shards. Trouble with an index
// concerns only that index's view. Fatal: 401, 403, an alias that replicator did not make, a mapping that Elasticsearch
// refuses or that omits needed fields from _source, a pipeline that is missing or drops documents, or a server that is
// neither Elasticsearch nor OpenSearch. ErrSinkLost: the index, its write alias or its marks are gone. If a document's
// state can't be read, the document is written again from scratch.
//
// # Files
//
// elastic.go Config, New, Open, Marks, Forget · settings.go the configuration · target.go an open target · apply.go a
// batch · refused.go failed writes · document.go a document's form · bulk.go reading and writing many documents ·
// pace.go how many at once · memory.go documents written lately · compare.go comparison with the source · gate.go write
// aliases · forget.go forgetting deleted cells · walk.go walks · stray.go documents from no cell · registry.go marks ·
// index.go generations · alias.go aliases · design.go what an index is created with · mapping.go field mappings ·
// omitted.go what _source omits · retired.go replaced indexes · shadow.go rebuilds · check.go findings · client.go
// requests · opensearch.go differences in OpenSearch · answers.go, scan.go decoding · errors.go errors, without values.
//
// Package judge has the decisions that all sinks share.
package elastic
