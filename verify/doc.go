// Package verify compares views with the source, and repairs them.
//
// What a view should hold is computed from the newest rows that the source has now (a fenced read); what it does hold
// is read from the sink itself, not from its states. What can't be computed or held is dead: it is counted by itself,
// whatever the list of dead letters knows of it, and no repair helps it. Three passes: over the cells that the source
// has, for what is missing or stale; over what the sink holds, for what is extra; over what the sink holds of no cell
// at all (replicator.Tidier). Where several sources feed the view a repair makes one more, over what the sink remembers of
// rows that are gone.
//
// A live writer gives no false alarm: a cell that differs is looked at again, and the view is given time to include
// what the source had committed when it was read (Options.Fence), until it is right, or until two looks in a row find
// the same difference, the same newest rows and the same states: of all cells of the entity, since a merged one differs
// whichever of them moves. A cell that never stands still is in the hands of the pipeline.
//
// A repair is a reset of the cell with what the source holds, written whatever the state says: judged by State.Next
// like everything else, so that it never steps back behind the pipeline. What is wrong in one view is written to all
// views of its sink that are kept up with it and that the cell feeds, in one Apply of one read of the source
// (Options.Together): else an index and its row would disagree from the repair of the one to that of the other. Only
// the view's own differences are counted.
package verify
