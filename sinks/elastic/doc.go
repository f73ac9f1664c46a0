// Package elastic keeps views as documents of Elasticsearch: one document a key, its fields merged from every cell that
// feeds the view.
//
// # Promises
//
//   - What decides about a write is replicator.State.Next (judge.Batch), on a state that is kept in the document itself
//     and changes only with it: any number of replicators may write, and crash between any two requests.
//   - What Apply returned is durable as the index's translog.durability says (by default: yes).
//   - Integers and decimals of any size stand in _source digit for digit. A value that can't be stored as it is (text
//     that is not UTF-8, a number that is not finite, what the index's mapping refuses) is rejected, never changed.
//     Reasons name the field, never the value.
//   - A view that is filled anew is never seen half done: see Generations.
//   - Nothing but requests that every Elasticsearch 8 answers is used: no scripts, no delete_by_query.
//
// # What is stored
//
// Settings.Index is an alias. Behind it stands an index of ours, INDEX-r1, with the mapping and the settings of the
// view's files. The object _replicator in each document, of which nothing is indexed but whether the document is hidden
// or has a dead letter, holds by cell (TABLE.COLUMN, and @SOURCE of a shard) its key (k), version (v), order (o), as-of
// (a), whether it is a dead letter (d) and, where several cells may share a document, the fields that it contributes
// (f). A cell that is gone leaves that state behind for a while; a document without a contribution is hidden by the alias's filter.
// (GET INDEX/_doc/ID does not apply filters: it finds the hidden ones.)
//
// The document replicator:marks in each index holds the view's marks, so that whoever removes, empties or restores the
// index takes them along: Target.Mark then tells of the loss. Writes go through an alias with a random name,
// INDEX-r1-write-…, and demand that it is one: a write after the index was removed fails, where Elasticsearch would
// else make an index of its own guess.
//
// # How a batch is applied
//
// Documents are read by id (in real time, not as of the last refresh), judged, and written on the condition that nobody
// wrote them since (if_seq_no and if_primary_term, or create). One that fails on that goes round again. Where most
// documents were new lately they are created without being read; what this target wrote lately is judged by its memory
// of it. Both rest on the same condition, so both are exact. External versions are not used: they compare one number,
// and so can't tell two rows of one version apart, nor keep the as-of of a look when a later put replaces the document.
//
// Items that there was no room for (429, 5xx) are sent again a few times; a request that is too large is split; a
// document that is refused (400) is written again without what the cell at fault contributes. Every item's status is
// looked at.
//
// # Generations
//
// A view that is opened with another definition, or after Forget, gets the next index (INDEX-r2), with nothing in it.
// The alias goes on showing the old one, which is no longer written, until the view is marked as filled from every
// source; then one request moves the alias and removes the old index. A rebuild (Shadowing) fills the next index beside
// the live one, which is kept up meanwhile; Swap moves the aliases of all rebuilt views in one request.
//
// # Forgetting
//
// Cells that are gone and lie below a horizon are forgotten: a document without any other cell is removed. The horizons
// stand beside the marks. A removed document could be created again by a request that was judged before; what prevents
// it is that the alias to write to gets another name first (gate).
//
// # Failure
//
// Temporary: no answer, 429, 5xx, a blocked index (full disk) or one that lacks shards, which is its view's trouble
// alone. Fatal: 401, 403, an alias that is somebody else's, a mapping that Elasticsearch refuses or that leaves out of
// _source what is read back, a pipeline that there is not or that drops documents, a server that is neither
// Elasticsearch nor OpenSearch. ErrSinkLost: the index, its write alias or its marks are gone. A document's state that
// can't be read is none: the document is made anew.
//
// # What is where
//
// elastic.go Config, New, Open, Marks, Forget · settings.go what the configuration says · target.go an open target ·
// apply.go a batch · refused.go what follows from a write that failed · document.go a document's form · bulk.go reading
// and writing many documents · pace.go how many at once · memory.go what was written lately · compare.go what is really
// held · gate.go where writes go · forget.go what is gone is forgotten · walk.go walks · stray.go what came from no
// cell · registry.go marks · index.go generations · alias.go what an alias shows · design.go what an index is created
// with · mapping.go how fields are mapped · omitted.go what _source lacks · retired.go indexes that are not needed any
// more · shadow.go rebuilds · check.go findings · client.go requests · opensearch.go what is not as in Elasticsearch ·
// answers.go, scan.go what answers and documents say · errors.go what failed, said without values.
//
// What every sink decides alike is in package judge.
package elastic
