//! Kubernetes: the client `kube` against a server of the test.

mod errors;
