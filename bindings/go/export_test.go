package portalock

// ServerURL tells where a server is. It is for the examples, which are of another package.
func ServerURL() string { return exampleURL }
