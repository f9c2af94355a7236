package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"binnacle/internal/tenant/access"
	"binnacle/query"
)

// CheckSuspended returns an error if an operator has suspended a tenant: it answers no query.
func CheckSuspended(q *query.Querier, tenant string) error {
	t, _ := q.Tenant(tenant)
	if t.Suspended == nil {
		return nil
	}
	return &access.Denied{Status: http.StatusForbidden, Header: "X-Scope-OrgID",
		Detail: fmt.Sprintf("tenant %s is suspended since %s: %s", tenant, t.Suspended.Since.Format(time.RFC3339),
			t.Suspended.Reason)}
}
