//! Owns address ranges, parsed once, and whether two of them intersect. Knows nothing of whose they are.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// A range of addresses as somebody wrote it. One that can't be read stays a value: what it means is the reader's
/// decision, because an object with one bad field must not hide the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cidr {
    text: Arc<str>,
    prefix: Option<Prefix>,
}

/// Address with its host bits cleared, and how many bits of it count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefix {
    V4(u32, u32),
    V6(u128, u32),
}

impl Cidr {
    /// Reads a range; host bits are cleared, an IPv4-mapped IPv6 range counts as IPv4.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.into(),
            prefix: parse(text),
        }
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// As it was written, shared.
    pub(crate) fn shared_text(&self) -> Arc<str> {
        self.text.clone()
    }

    /// It can't be read.
    pub const fn is_malformed(&self) -> bool {
        self.prefix.is_none()
    }

    /// It is a range of IPv4 addresses.
    pub const fn is_v4(&self) -> bool {
        matches!(self.prefix, Some(Prefix::V4(..)))
    }

    /// It is a range of IPv6 addresses.
    pub const fn is_v6(&self) -> bool {
        matches!(self.prefix, Some(Prefix::V6(..)))
    }

    /// Whether both have an address in common. One that can't be read intersects everything, since nobody can rule
    /// it out; ranges of different families never do.
    pub const fn intersects(&self, other: &Self) -> bool {
        match (self.prefix, other.prefix) {
            (Some(Prefix::V4(a, n)), Some(Prefix::V4(b, m))) => {
                let mask = mask32(if n < m { n } else { m });
                a & mask == b & mask
            }
            (Some(Prefix::V6(a, n)), Some(Prefix::V6(b, m))) => {
                let mask = mask128(if n < m { n } else { m });
                a & mask == b & mask
            }
            (Some(_), Some(_)) => false,
            _ => true,
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

const fn mask32(bits: u32) -> u32 {
    match u32::MAX.checked_shl(u32::BITS.saturating_sub(bits)) {
        Some(mask) => mask,
        None => 0,
    }
}

const fn mask128(bits: u32) -> u128 {
    match u128::MAX.checked_shl(u128::BITS.saturating_sub(bits)) {
        Some(mask) => mask,
        None => 0,
    }
}

fn parse(text: &str) -> Option<Prefix> {
    let (address, length) = text.split_once('/')?;
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let bits: u32 = length.parse().ok()?;
    match address.parse().ok()? {
        IpAddr::V4(address) if bits <= 32 => {
            Some(Prefix::V4(u32::from(address) & mask32(bits), bits))
        }
        IpAddr::V6(address) if bits <= 128 => {
            let mapped = address.to_ipv4_mapped().zip(bits.checked_sub(96));
            Some(match mapped {
                Some((address, bits)) => Prefix::V4(u32::from(address) & mask32(bits), bits),
                None => Prefix::V6(u128::from(address) & mask128(bits), bits),
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn intersections() {
        for (a, b, expected) in [
            ("10.0.0.0/8", "10.20.0.0/16", true),
            ("10.0.0.0/16", "10.1.0.0/16", false),
            ("10.0.0.77/16", "10.0.200.1/24", true),
            ("0.0.0.0/0", "203.0.113.7/32", true),
            ("10.0.0.0/8", "::/0", false),
            ("fd00::/8", "fd8f:6d53:b97a:1::/96", true),
            ("fd00::/64", "fd00:0:0:1::/64", false),
            ("::/0", "::1/128", true),
            ("::ffff:10.0.0.0/104", "10.9.0.0/16", true),
            ("10.0.0.0", "192.168.0.0/16", true),
            ("", "fd00::/8", true),
        ] {
            let (a, b) = (Cidr::new(a), Cidr::new(b));
            assert_eq!(a.intersects(&b), expected, "{a} {b}");
            assert_eq!(b.intersects(&a), expected, "{b} {a}");
        }
    }

    #[test]
    fn what_is_no_range() {
        for text in [
            "",
            "10.0.0.0",
            "10.0.0/8",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/",
            "010.0.0.0/8",
            "::/129",
            "fe80::1%eth0/64",
            "10.0.0.0/8/8",
            " 10.0.0.0/8",
        ] {
            assert!(Cidr::new(text).is_malformed(), "{text:?}");
        }
        assert!(Cidr::new("10.0.0.0/8").is_v4());
        assert!(Cidr::new("::ffff:10.0.0.0/104").is_v4());
        assert!(Cidr::new("fd00::/8").is_v6());
    }

    mod fuzz {
        use super::*;

        pilotage_absurd::properties! {
            #[test]
            fn never_panics(a in "\\PC{0,20}", b in "[0-9a-f:.]{0,20}/[0-9]{0,4}") {
                let (a, b) = (Cidr::new(&a), Cidr::new(&b));
                prop_assert_eq!(a.intersects(&b), b.intersects(&a));
                prop_assert!(a.intersects(&a));
            }
        }
    }
}
