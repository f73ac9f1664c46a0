package replicator

// Unread takes the place of a value in a decoded body that no view can hold, and says what it was: an object of an
// unknown class, or a number that is not finite. A view that uses the value fails for the cell. Other views are not
// affected.
type Unread string
