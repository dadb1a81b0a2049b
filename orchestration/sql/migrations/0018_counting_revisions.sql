-- A run starts from the revision that counts of every window: found in this order, nothing is sorted.
create index artifacts_counting on ops.artifacts
    (pipeline, resource, window_name, source_revision desc, revision desc)
    where acceptance = 'accepted';
drop index ops.artifacts_accepted;
