package replicator

// Unread stands in a decoded body for what no view can hold, and says what that is: an object of a class that is not
// known, a number that is not finite. A view that uses it fails for the cell; one that does not is none the worse.
type Unread string
