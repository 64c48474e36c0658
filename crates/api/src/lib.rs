//! Kinds, wire keys, parent links and names of multicluster.admiralty.io. Pure.
