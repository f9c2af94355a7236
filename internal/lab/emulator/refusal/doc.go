// Package refusal has the answers other than success: a status, a substatus, words for the client, and the charge.
// Every package of the emulator refuses with an *Error of this package; Of makes one of any error. It must not know the
// caller, nor how an answer is written.
package refusal
