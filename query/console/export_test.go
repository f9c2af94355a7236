package console

// Files are the files of the page, as they are embedded.
var Files = files
