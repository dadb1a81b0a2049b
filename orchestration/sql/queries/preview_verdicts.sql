-- The last word of each suite on a version.
select distinct on (suite)
    suite,
    verdict,
    suite_hash
from ops.verdicts
where stage = 'gate' and subject = %(version_id)s
order by suite, verdict_id desc
