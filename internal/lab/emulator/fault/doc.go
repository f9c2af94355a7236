// Package fault has rules by which an emulator fails on purpose: which requests one is for, how many of them it hits,
// and what becomes of those. A Set holds the rules of one emulator and may be changed while it serves. It must not
// know how requests arrive or are answered.
package fault
