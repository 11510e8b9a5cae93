// Package typescript contains the client library for browsers and Node, which the page uses as well.
package typescript

import _ "embed"

// Client is the source of the client: a module without dependencies.
//
//go:embed threadmill.js
var Client []byte
