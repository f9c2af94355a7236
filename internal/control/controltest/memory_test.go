package controltest_test

import (
	"testing"

	"binnacle/internal/control"
	"binnacle/internal/control/controltest"
)

func TestDocumentsInMemory(t *testing.T) {
	controltest.RunDocuments(t, func(t *testing.T) control.Documents { return controltest.NewDocuments(t) })
}

func TestCatalogInMemory(t *testing.T) {
	controltest.RunCatalog(t, func(t *testing.T) control.Catalog { return controltest.NewCatalog(t) })
}

func TestFeedInMemory(t *testing.T) {
	controltest.RunFeed(t, func(t *testing.T) (control.Documents, control.Feed) {
		docs := controltest.NewDocuments(t)
		return docs, docs
	})
}
