// Package jsonvalue reads and writes JSON as the emulator keeps it: read strictly, written minified, numbers as
// they were sent. It is the emulator's one writer of JSON strings. It must not know the meaning of any JSON.
package jsonvalue
