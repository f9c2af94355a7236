package app

// Charged is charged, for tests.
var Charged = charged
