package replicator

// Unread replaces a value in a decoded body that no view can hold, and describes it: an object of an unknown class, or
// a number that is not finite. A view that uses the value gets a dead letter for the cell. Other views are not
// affected.
type Unread string
