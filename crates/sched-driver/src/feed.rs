//! feed
mod lean;
mod relist;
