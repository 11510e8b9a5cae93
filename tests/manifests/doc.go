// Package manifests tests what is in deploy/: for Kubernetes, for systemd, and the site of the documents; and the images of a release.
package manifests
