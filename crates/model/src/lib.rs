//! Makers: delegate pod, chaperon, virtual node. Pure.
