//! Controllers: ask and reserve edges, chaperon, feedback, source, target, summary.
