// Package lint holds what deploy/ and the root's Dockerfile, docker-compose.yml and .goreleaser.yaml say against the libraries of
// those who read them: BuildKit, Compose, Kubernetes, kustomize and GoReleaser. It is a module of its own, so that theirs are not in
// Postrider's go.mod, and tests alone. What they cannot know, such as whether a variable is a key of Postrider, the program is asked.
package lint
