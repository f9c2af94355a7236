package httpapi

// Routes is the path, methods and parameters of every endpoint.
func Routes(cfg Config) map[string][2][]string {
	out := make(map[string][2][]string)
	for _, r := range (&api{cfg: cfg}).routes() {
		out[r.path] = [2][]string{r.methods, r.parameters}
	}
	return out
}
