use super::learning::LearningVisitor;
use super::rate::RateVisitor;
use super::settings::{Changed, Reader, settings};
use super::visit::{FlagVisitor, IntegerVisitor, NumberVisitor};
use crate::quota::{Charge, Quota};

settings! {
    /// Reads a quota. A missing setting keeps its value from [`Quota::new`].
    ///
    /// * `requests`, `input`, `output`, `tokens`: a rate such as `"500/min"`, or a map of `count`,
    ///   `per` (a duration) and optionally `burst`. The units of the text are `s`, `sec`, `second`,
    ///   `m`, `min`, `minute`, `h`, `hour`, `d` and `day`. `"10_000/s"` and `"500 per minute"` are
    ///   rates too.
    /// * `concurrency`, `queue`: whole numbers.
    /// * `learning`: `"off"`, `"lower"` or `"both"`, see [`Learning`](crate::quota::Learning).
    /// * `shadow`: true if the quota only watches.
    /// * `charge`: a map of `maximum_reserved`, `refund`, `default_maximum`, `output_weight`,
    ///   `cache_read_weight` and `cache_write_weight`.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::quota::{Dimension, Rate};
    /// use resile::Quota;
    ///
    /// let quota: Quota = serde_json::from_str(
    ///     r#"{
    ///         "requests": "4000/min",
    ///         "tokens": { "count": 400000, "per": "1m", "burst": 66000 },
    ///         "concurrency": 64,
    ///         "charge": { "cache_read_weight": 0, "output_weight": 5 }
    ///     }"#,
    /// )?;
    /// assert_eq!(quota.rate(Dimension::Requests), Some(Rate::per_minute(4_000)));
    /// assert_eq!(quota.rate(Dimension::Tokens).unwrap().burst(), 66_000);
    /// assert_eq!(quota.charge().output_weight(), 5.0);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    Quota, "a quota", Quota::new(), {
        "requests": RateVisitor => |quota, rate| quota.with_requests(rate),
        "input": RateVisitor => |quota, rate| quota.with_input(rate),
        "output": RateVisitor => |quota, rate| quota.with_output(rate),
        "tokens": RateVisitor => |quota, rate| quota.with_tokens(rate),
        "concurrency": IntegerVisitor::from_1
            => |quota, limit| quota.with_concurrency(limit),
        "queue": IntegerVisitor::from_0 => |quota, waiting| quota.with_queue(waiting),
        "learning": LearningVisitor => |quota, learning| quota.with_learning(learning),
        "shadow": FlagVisitor => |quota, is_shadow| quota.with_shadow(is_shadow),
        "charge": Reader::<Changed<Charge>>::at => |quota, charge| quota.with_charge(charge),
    }

    /// Reads `maximum_reserved`, `refund`, `default_maximum`, `output_weight`, `cache_read_weight` and
    /// `cache_write_weight`. A missing setting keeps its value from [`Charge::ACTUAL`]. A
    /// `default_maximum` beside a `maximum_reserved` of false is an error.
    ///
    /// # Examples
    ///
    /// ```
    /// use resile::quota::Charge;
    ///
    /// // The most output counts at the start, and nothing is refunded.
    /// let text = r#"{ "maximum_reserved": true, "refund": false }"#;
    /// let charge: Charge = serde_json::from_str(text)?;
    /// assert!(charge.reserves_maximum() && !charge.refunds());
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    Charge, "a charge", Charge::ACTUAL, {
        "maximum_reserved": FlagVisitor
            => |charge, reserves| charge.with_maximum_reserved(reserves),
        "refund": FlagVisitor => |charge, refunds| charge.with_refund(refunds),
        "default_maximum": IntegerVisitor::from_0
            => |charge, tokens| charge.with_default_maximum(tokens.into()),
        "output_weight": NumberVisitor::weight
            => |charge, weight| charge.with_output_weight(weight),
        "cache_read_weight": NumberVisitor::weight
            => |charge, weight| charge.with_cache_read_weight(weight),
        "cache_write_weight": NumberVisitor::weight
            => |charge, weight| charge.with_cache_write_weight(weight),
    }, |charge, found| {
        let both = found.has(&["maximum_reserved", "default_maximum"]);
        if both && !charge.reserves_maximum() {
            return Err(found.contradiction(
                ("maximum_reserved", "false"),
                ("default_maximum", &charge.default_maximum().to_string()),
                "`maximum_reserved` to be true, because only then the number counts",
            ));
        }
        Ok(charge)
    }
}
