//! Real control planes for tests and the demo, object builders, fault injection. Development only.
