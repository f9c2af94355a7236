// Package archtest holds the import rules of the project as a test: which layer a package belongs to, who
// may import whom, and which libraries have a single importer. docs/ARCHITECTURE.md draws them.
package archtest
