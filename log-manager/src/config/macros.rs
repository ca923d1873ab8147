//! One place for each setting.

/// Defines settings once: the struct, its getters, the builder's setters, the table of keys.
macro_rules! settings {
    (
        $(#[$struct_doc:meta])*
        $config:ident($settings:ident), $builder:ident;
        also { $($(#[$also_doc:meta])* $also:ident: $also_type:ty;)* }
        $($(#[$doc:meta])* $name:ident: $type:ty = $default:expr, $key:literal, $bounds:expr;)*
    ) => {
        $(#[$struct_doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $config(std::sync::Arc<$settings>);

        #[derive(Clone, Debug, PartialEq)]
        struct $settings {
            $($also: $also_type,)*
            $($name: $type,)*
        }

        impl Default for $settings {
            fn default() -> Self {
                Self { $($also: Default::default(),)* $($name: $default,)* }
            }
        }

        impl $config {
            /// Kafka's keys of the settings.
            pub const KEYS: &'static [&'static str] = &[$($key,)*];

            /// Starts from Kafka's defaults.
            pub fn builder() -> $builder {
                $builder::default()
            }

            /// Starts from these settings, to change some.
            pub fn to_builder(&self) -> $builder {
                $builder((*self.0).clone())
            }

            $(
                $(#[$also_doc])*
                #[must_use]
                pub fn $also(&self) -> $also_type {
                    self.0.$also.clone()
                }
            )*

            $(
                $(#[$doc])*
                #[doc = concat!("\n\nKafka's `", $key, "`.")]
                #[must_use]
                pub fn $name(&self) -> $type {
                    self.0.$name.clone()
                }
            )*
        }

        impl $builder {
            $(
                $(#[$also_doc])*
                pub fn $also(mut self, value: $also_type) -> Self {
                    self.0.$also = value;
                    self
                }
            )*

            $(
                $(#[$doc])*
                #[doc = concat!("\n\nKafka's `", $key, "`, by default `", stringify!($default), "`.")]
                pub fn $name(mut self, value: $type) -> Self {
                    self.0.$name = value;
                    self
                }
            )*

            /// Sets one setting from Kafka's text; `false` where the key is not one of ours.
            fn set(&mut self, key: &str, text: &str) -> Result<bool, ConfigError> {
                match key {
                    $($key => self.0.$name = Setting::parse($key, text, &$bounds)?,)*
                    _ => return Ok(false),
                }
                Ok(true)
            }

            fn check(&self) -> Result<(), ConfigError> {
                $(self.0.$name.check($key, &$bounds)?;)*
                Ok(())
            }
        }
    };
}

pub(super) use settings;
