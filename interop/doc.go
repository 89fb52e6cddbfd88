// Package interop has receivers' own libraries judge what package signer signs: Standard Webhooks' and Svix's, Stripe's
// and Octokit's for Node.js, and node:crypto for schemes and bodies that none of them takes; of what polls give, too. And it has the CloudEvents SDK
// send to a Postrider and read what that delivers. It holds tests alone, behind the build tag interop, since they need Node.js
// and the libraries of package.json; scripts/interop fetches them and runs it. It never skips: what cannot be judged fails.
package interop
