// Package manifests tests what is in deploy/ for Kubernetes and systemd.
package manifests
