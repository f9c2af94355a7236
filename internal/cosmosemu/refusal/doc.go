// Package refusal has the answers other than success: a status, a substatus, words for the client, and what it is
// charged. Every room refuses with an *Error of this package; Of makes one of any error. It must not know who refuses,
// nor how an answer is written.
package refusal
